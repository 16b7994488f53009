"""CASES.md F7 with a real tokenizer: very long documents, and the memory that they take."""

import subprocess
import sys
from pathlib import Path

import pytest
from real.documents import training_texts
from real.subjects import Subject, assert_counts, true_counts, write_lines

from vocabfreq import FrequencyTable
from vocabfreq.tokenizer.crosscheck import find_texts_with_new_code_points

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc"),
]

MB = 1 << 20
LIMIT = 600 * MB  # a few copies of 16 MB, the tokenizer and its caches
COUNT = """
import sys
from pathlib import Path
from vocabfreq import CountOptions, count

source, tokenizer, output = sys.argv[1:]
count([source], tokenizer, CountOptions(workers=0, holdout=0)).save(output)
print(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
"""


def test_F7_one_document_of_16_MB_on_one_line(llama3: Subject, tmp_path: Path) -> None:
    text = prose_and_code(16 * MB)
    table, peak = counted(text, llama3, tmp_path)
    assert table.sources[0].documents == 1
    assert table.sources[0].bytes >= 16 * MB
    assert_counts(table, true_counts(llama3.folder, [text]))
    assert peak < LIMIT


def test_F7_2_MB_of_one_letter(llama3: Subject, tmp_path: Path) -> None:
    text = "a" * (2 * MB)
    table, peak = counted(text, llama3, tmp_path)
    assert_counts(table, true_counts(llama3.folder, [text]))
    assert peak < LIMIT


def prose_and_code(size: int) -> str:
    """One document of at least so many bytes, of everyday texts over and over."""
    # Texts that go to the reference are left out: it takes 150 bytes for each of one document.
    texts = training_texts()
    rare = set(find_texts_with_new_code_points(texts, [text.encode() for text in texts]))
    once = "\n".join(text for n, text in enumerate(texts) if n not in rare)
    return once * (size // len(once.encode()) + 1)


def counted(text: str, subject: Subject, folder: Path) -> tuple[FrequencyTable, int]:
    """Counts in a process of its own; also gives its peak memory in bytes."""
    source = write_lines(folder / "long.jsonl", [text])
    output = folder / "counts.safetensors"
    command = [sys.executable, "-c", COUNT, *map(str, (source, subject.folder, output))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return FrequencyTable.load(str(output)), int(done.stdout) << 10

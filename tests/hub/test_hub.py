"""push, pull and verify against the loopback Hub, through the real client."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hubcli import HubCli
from hubserver import Fault, HubServer
from tiny import tiny_tokenizer

from vocabfreq import FrequencyTable, count

REPO = "org/tiny-freq"
NAMES = {
    "README.md",
    "SHA256SUMS",
    "config.json",
    "coverage.png",
    "freq_260.pt",
    "vocab_freq.safetensors",
}


@pytest.fixture(scope="module")
def server() -> Iterator[HubServer]:
    with HubServer() as hub:
        yield hub


@pytest.fixture
def hub(server: HubServer) -> Iterator[HubServer]:
    """The server, empty; asking for what it does not know fails the test."""
    server.repos.clear()
    server.faults.clear()
    server.requests.clear()
    server.tokens = {"good"}
    yield server
    assert server.unknown == []


@pytest.fixture(scope="module")
def cli(server: HubServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubCli]:
    made = HubCli(server, tmp_path_factory.mktemp("home"))
    yield made
    made.close()


@pytest.fixture(scope="module", params=["xet", "lfs"])
def either(
    request: pytest.FixtureRequest, server: HubServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HubCli]:
    """By Xet, which is the default, and without it."""
    if request.param == "xet" and importlib.util.find_spec("hf_xet") is None:
        pytest.skip("hf_xet is not installed")
    more = {} if request.param == "xet" else {"HF_HUB_DISABLE_XET": "1"}
    made = HubCli(server, tmp_path_factory.mktemp("home"), **more)
    yield made
    made.close()


@pytest.fixture(scope="module")
def counted(tok: Path, tmp_path_factory: pytest.TempPathFactory) -> FrequencyTable:
    folder = tmp_path_factory.mktemp("counted")
    (folder / "a.txt").write_text("the abc the hello")
    return count([str(folder / "a.txt")], str(tok))


@pytest.fixture
def file(counted: FrequencyTable, tmp_path: Path) -> Path:
    """A frequency file."""
    counted.save(tmp_path / "counted.safetensors")
    return tmp_path / "counted.safetensors"


def commits(hub: HubServer, repo: str = REPO) -> list[str]:
    """Titles, without the first commit of every repo."""
    return [commit.title for commit in hub.repos["model", repo].log][1:]


def on(method: str, part: str) -> Any:
    return lambda used, path: used == method and part in path


def pushed(cli: HubCli, file: Path, *options: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(
        cli.good("push", file, REPO, "--size", "260", "--json", *options)
    )
    return result


def test_the_whole_round(hub: HubServer, either: HubCli, tmp_path: Path) -> None:
    """Build from a Hub data set with a Hub tokenizer, push, read as SGLang does, pull, compare."""
    rows = "".join(json.dumps({"text": f"the abc hello {n}"}) + "\n" for n in range(300))
    hub.add("dataset", "org/chats", {"data/train-0.jsonl": rows.encode()})
    eos = json.dumps({"eos_token": "<|im_end|>"}).encode()
    tokenizer = {"tokenizer.json": tiny_tokenizer().to_str().encode(), "tokenizer_config.json": eos}
    commit = hub.add("model", "org/target", tokenizer)
    built, sources = tmp_path / "vocab_freq.safetensors", ("--source", "chats=org/chats")
    either.good("build", "-q", "--tokenizer", "org/target", *sources, "--workers", "0", "-o", built)
    table = FrequencyTable.load(built)
    assert table.tokenizer.revision == commit

    result = pushed(either, built)
    assert result["changed"] and set(result["files"]) == NAMES
    assert set(hub.repos["model", REPO].commits[result["commit"]]) == NAMES | {".gitattributes"}
    card = hub.repos["model", REPO].commits[result["commit"]]["README.md"].decode()
    for part in ("base_model: org/target", "- org/chats", f"org/target@{commit}", "| chats |"):
        assert part in card
    assert str(tmp_path) not in card

    wanted = table.select(260)
    ids = either.value(
        "[__import__('torch').load(__import__('huggingface_hub').snapshot_download("
        f"{REPO!r}, ignore_patterns=['*.bin', '*.safetensors']) + '/freq_260.pt', "
        "weights_only=True)]"
    )[0]
    assert sorted(ids) == wanted.target_ids.tolist()
    assert len(ids) == 260

    hub.add("model", REPO, {"README.md": b"the branch goes on"})
    pinned = f"{REPO}@{result['commit']}"
    either.good("pull", pinned, "-o", tmp_path / "pulled")
    again = FrequencyTable.load(tmp_path / "pulled/vocab_freq.safetensors")
    assert (again.counts == table.counts).all() and (again.heldout == table.heldout).all()
    assert again.meta == table.meta
    assert built.read_bytes() == (tmp_path / "pulled/vocab_freq.safetensors").read_bytes()
    assert "all checks passed" in either.good("verify", pinned)
    assert "all checks passed" in either.good("verify", tmp_path / "pulled")
    for code in (
        f"__import__('vocabfreq').DraftVocab.from_hub({pinned!r}, size=260).fingerprint",
        f"__import__('vocabfreq').FrequencyTable.load({pinned!r}).select(260).fingerprint",
        "__import__('vocabfreq.runtime').runtime.prune_lm_head(__import__('torch').zeros(265, 4), "
        f"{pinned!r}, size=260).vocab.fingerprint",
    ):
        assert either.value(code) == wanted.fingerprint


def test_an_unchanged_push_does_nothing_and_says_so(
    hub: HubServer, cli: HubCli, file: Path
) -> None:
    first = pushed(cli, file)
    assert commits(hub) == ["Publish token frequencies"]
    again = pushed(cli, file)
    assert (again["changed"], again["commit"]) == (False, first["commit"])
    assert "Nothing to do: org/tiny-freq has these files already" in cli.good(
        "push", file, REPO, "--size", "260"
    )
    assert commits(hub) == ["Publish token frequencies"]


def test_h1_429_on_create_and_503_on_commit_are_tried_again(
    hub: HubServer, cli: HubCli, file: Path
) -> None:
    hub.faults = [
        Fault(on("POST", "/api/repos/create"), status=429, headers={"Retry-After": "0"}, times=1),
        Fault(on("POST", "/commit/"), status=503, times=2),
    ]
    assert pushed(cli, file)["changed"]
    assert commits(hub) == ["Publish token frequencies"]


@pytest.mark.parametrize("status", [None, 503, 504])
def test_h1_a_commit_that_nobody_confirmed_is_not_made_twice(
    hub: HubServer, cli: HubCli, file: Path, status: int | None
) -> None:
    hub.faults = [Fault(on("POST", "/commit/"), status=status, after=True, times=1)]
    result = pushed(cli, file)
    assert commits(hub) == ["Publish token frequencies"]
    assert result["commit"] == hub.repos["model", REPO].refs["main"]


def test_h1_a_hub_that_stays_away_is_reported(hub: HubServer, cli: HubCli, file: Path) -> None:
    hub.faults = [Fault(on("POST", "/commit/"), status=503)]
    done = cli("push", file, REPO, "--size", "260")
    assert done.status == 1
    assert "cannot push to 'org/tiny-freq'" in done.err
    assert "tried 5 times; push again later: nothing is committed twice" in done.err
    assert commits(hub) == []


def test_h1_a_branch_that_moved_is_left_alone(hub: HubServer, cli: HubCli, file: Path) -> None:
    pushed(cli, file)
    others = {"README.md": b"by somebody else"}

    def moves(method: str, path: str) -> bool:
        if method == "POST" and "/commit/" in path:
            hub.add("model", REPO, others)
        return False

    hub.faults = [Fault(moves)]
    done = cli("push", file, REPO, "--size", "261")
    assert done.status == 1
    assert "was changed by somebody else in the meantime" in done.err
    repo = hub.repos["model", REPO]
    assert repo.commits[repo.refs["main"]] == others


@pytest.mark.parametrize(("token", "message"), [(None, "not logged in"), ("bad", "(401)")])
def test_h1_without_a_login(
    hub: HubServer, file: Path, tmp_path: Path, token: str | None, message: str
) -> None:
    stranger = HubCli(hub, tmp_path / "home", token)
    done = stranger("push", file, REPO, "--size", "260")
    stranger.close()
    assert done.status == 1
    assert message in done.err and "hf auth login" in done.err
    assert hub.repos == {}


def test_no_token_is_ever_shown(hub: HubServer, file: Path, tmp_path: Path) -> None:
    hub.tokens = {"hf_verysecret"}
    owner = HubCli(hub, tmp_path / "home", "hf_verysecret")
    done = [owner("push", file, REPO, "--size", "260", "--message", "Try")]
    hub.faults = [Fault(on("POST", "/commit/"), status=400)]
    done.append(owner("push", file, REPO, "--size", "261"))
    owner.close()
    assert [one.status for one in done] == [0, 1]
    shown = "".join(one.out + one.err for one in done)
    stored = b"".join(
        hub.repos["model", REPO].commits[hub.repos["model", REPO].refs["main"]].values()
    )
    assert "verysecret" not in shown and b"verysecret" not in stored


def test_branches_and_pull_requests(hub: HubServer, cli: HubCli, file: Path) -> None:
    pushed(cli, file)
    pushed(cli, file, "--revision", "next", "--size", "261", "--message", "More")
    repo = hub.repos["model", REPO]
    assert "freq_261.pt" in repo.commits[repo.refs["next"]]
    assert "freq_261.pt" not in repo.commits[repo.refs["main"]]
    result = pushed(cli, file, "--create-pr", "--size", "262")
    assert "/discussions/1" in result["url"]
    assert "freq_262.pt" not in repo.commits[repo.refs["main"]]


def test_a_pull_request_that_may_have_been_opened_is_not_opened_again(
    hub: HubServer, cli: HubCli, file: Path
) -> None:
    pushed(cli, file)
    hub.faults = [Fault(on("POST", "/commit/"), after=True)]
    done = cli("push", file, REPO, "--size", "261", "--create-pr")
    assert done.status == 1
    assert "cannot tell whether the pull request was opened" in done.err
    assert len(hub.repos["model", REPO].pulls()) == 1


@pytest.mark.parametrize("name", ["nobody", "a/b/c", "../x", "a b/c", "owner/"])
def test_what_cannot_be_a_repo(cli: HubCli, hub: HubServer, file: Path, name: str) -> None:
    done = cli("push", file, name)
    assert done.status == 4
    assert "expected owner/name" in done.err
    assert hub.requests == []


def test_a_dry_run_sends_nothing_and_leaves_the_card(
    hub: HubServer, cli: HubCli, file: Path, tmp_path: Path
) -> None:
    cli.value(f"__import__('os').chdir({str(tmp_path)!r})")
    out = cli.good("push", file, REPO, "--size", "260", "--dry-run")
    assert "Nothing was sent" in out and "freq_260.pt" in out
    assert hub.requests == []
    assert {path.name for path in (tmp_path / "tiny-freq").iterdir()} == NAMES
    assert "# Token frequencies" in (tmp_path / "tiny-freq/README.md").read_text()


def spoiled(hub: HubServer, cli: HubCli, file: Path, **files: bytes) -> None:
    """A good repo of which some files are others, and the manifest is as it was."""
    result = pushed(cli, file)
    held = hub.repos["model", REPO].commits[result["commit"]]
    hub.add("model", REPO, held | {name.replace("__", "."): data for name, data in files.items()})


@pytest.mark.parametrize("reader", ["pull", "verify", "load", "map"])
def test_h2_other_bytes_than_the_manifest_says(
    hub: HubServer, cli: HubCli, file: Path, reader: str
) -> None:
    other = bytearray(file.read_bytes())
    other[-1] ^= 1
    ids = hub.repos
    spoiled(hub, cli, file, vocab_freq__safetensors=bytes(other), freq_260__pt=b"PK other")
    assert ids is hub.repos
    if reader in ("pull", "verify"):
        done = cli(reader, REPO)
        text = done.err + done.out
        assert done.status == 1
    else:
        name = REPO if reader == "load" else f"{REPO}/freq_260.pt"
        text = cli.value(f"__import__('huberrors').error_of({name!r}, {reader!r})")
    assert "by the SHA256SUMS of commit" in text
    assert "has sha256" in text


def test_h2_a_length_other_than_announced(hub: HubServer, cli: HubCli, file: Path) -> None:
    pushed(cli, file)
    hub.faults = [Fault(on("GET", "/vocab_freq.safetensors"), truncate=100)]
    done = cli("pull", REPO)
    assert done.status == 1
    assert "cannot get 'org/tiny-freq/vocab_freq.safetensors'" in done.err


def test_h3_a_file_name_that_leaves_the_folder(hub: HubServer, cli: HubCli, file: Path) -> None:
    result = pushed(cli, file)
    held = hub.repos["model", REPO].commits[result["commit"]]
    hub.add("model", REPO, held | {"../x": b"out"})
    hub.requests.clear()
    done = cli("pull", REPO)
    assert done.status == 1
    assert "a file called '../x'" in done.err and "nothing was fetched" in done.err
    assert not [request for request in hub.requests if "resolve" in request]


def test_h3_a_manifest_that_leaves_the_folder(hub: HubServer, cli: HubCli, file: Path) -> None:
    spoiled(hub, cli, file, SHA256SUMS=b"0" * 64 + b"  ../../x\n")
    done = cli("pull", REPO)
    assert done.status == 1
    assert "a file name inside the folder" in done.err


def test_h3_a_file_too_large_for_a_list(
    hub: HubServer, cli: HubCli, file: Path, tmp_path: Path
) -> None:
    pushed(cli, file)
    empty = HubCli(hub, tmp_path / "home")  # nothing is in its cache
    huge = {"X-Linked-Size": str(100 << 30)}
    hub.faults = [Fault(on("HEAD", "/freq_260.pt"), headers=huge)]
    text = empty.value(f"__import__('huberrors').error_of('{REPO}/freq_260.pt', 'map')")
    empty.close()
    assert "107,374,182,400 bytes" in text and "nothing was fetched" in text
    assert f"GET /{REPO}/resolve/" not in " ".join(a for a in hub.requests if "freq_260" in a)


def test_a_repo_that_is_not_there_or_not_ours(hub: HubServer, cli: HubCli) -> None:
    done = cli("pull", "org/nothing")
    assert done.status == 1
    assert "no model repo 'org/nothing' on the Hub" in done.err
    hub.add("model", "org/other", {"config.json": b"{}"})
    done = cli("pull", "org/other")
    assert "has no SHA256SUMS; expected a repo that vocabfreq push made" in done.err


def test_a_pull_does_not_overwrite_other_files(
    hub: HubServer, cli: HubCli, file: Path, tmp_path: Path
) -> None:
    pushed(cli, file)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/config.json").write_text("mine")
    done = cli("pull", REPO, "-o", tmp_path / "out")
    assert done.status == 4
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["config.json"]
    assert cli("pull", REPO, "-o", tmp_path / "out", "--force").status == 0


def test_offline_what_was_fetched_before_is_enough(
    hub: HubServer, file: Path, tmp_path: Path
) -> None:
    online = HubCli(hub, tmp_path / "home")
    result = pushed(online, file)
    pinned = f"{REPO}@{result['commit']}"
    online.good("pull", pinned)
    online.close()
    hub.requests.clear()
    offline = HubCli(hub, tmp_path / "home", HF_HUB_OFFLINE="1")
    offline.good("pull", pinned, "-o", tmp_path / "out")
    assert "all checks passed" in offline.good("verify", pinned)
    offline.close()
    assert hub.requests == []
    assert {path.name for path in (tmp_path / "out").iterdir()} == NAMES


def test_a_name_out_of_a_file_cannot_write_the_card(tok: Path, tmp_path: Path) -> None:
    from vocabfreq import Source
    from vocabfreq.hub.card import CardInfo
    from vocabfreq.hub.contents import contents_of

    evil = "a|b\n# Heading <script>`x`\x1b[2J```\n---"
    (tmp_path / "a.txt").write_text("the abc")
    count([Source(evil, str(tmp_path / "a.txt"))], str(tok)).save(tmp_path / "f.safetensors")
    card = (
        contents_of(tmp_path / "f.safetensors", CardInfo("o/n"), [260]).files["README.md"].decode()
    )
    assert "\x1b" not in card and "\n# Heading" not in card
    parts = card.split("```")
    assert len(parts) % 2 == 1
    assert "<script>" not in "".join(parts[::2])  # outside of code
    rows = [line for line in card.splitlines() if line.startswith("| a")]
    assert rows


def test_the_same_file_gives_the_same_bytes(file: Path) -> None:
    from vocabfreq.hub.card import CardInfo
    from vocabfreq.hub.contents import contents_of

    first, again = (contents_of(file, CardInfo(REPO), [260]).files for _ in range(2))
    assert first == again


def test_nothing_of_the_client_is_loaded_before_it_is_needed() -> None:
    code = "import sys, vocabfreq.hub; print('huggingface_hub' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_push_takes_away_the_maps_of_the_one_before(
    hub: HubServer, cli: HubCli, file: Path
) -> None:
    pushed(cli, file)
    result = json.loads(cli.good("push", file, REPO, "--size", "261", "--json"))
    names = set(hub.repos["model", REPO].commits[result["commit"]])
    assert "freq_261.pt" in names and "freq_260.pt" not in names
    assert len(commits(hub)) == 2


def test_private_on_a_public_repo_is_refused(hub: HubServer, cli: HubCli, file: Path) -> None:
    pushed(cli, file)
    done = cli("push", file, REPO, "--size", "261", "--private")
    assert done.status == 4
    assert "exists and is public" in done.err
    assert len(commits(hub)) == 1


@pytest.mark.parametrize(
    "config",
    [b"{", b"[]", b"null", b'{"sizes": 5}', b'{"sizes": [{}]}', b"\xff\xfe", b"[" * 10_000, b"{}"],
    ids=range(8),
)
def test_verify_reports_a_wrong_config(file: Path, tmp_path: Path, config: bytes) -> None:
    from vocabfreq.hub import verify
    from vocabfreq.hub.card import CardInfo
    from vocabfreq.hub.contents import contents_of
    from vocabfreq.storage.manifest import make_manifest

    files = contents_of(file, CardInfo(REPO), [260]).files | {"config.json": config}
    files["SHA256SUMS"] = make_manifest({n: d for n, d in files.items() if n != "SHA256SUMS"})
    (tmp_path / "repo").mkdir()
    for name, data in files.items():
        (tmp_path / "repo" / name).write_bytes(data)
    last = verify(tmp_path / "repo")[-1]
    assert not last.ok and "config.json" in last.detail


def test_verify_reads_every_token_map(file: Path, tmp_path: Path) -> None:
    from vocabfreq.hub import verify
    from vocabfreq.hub.card import CardInfo
    from vocabfreq.hub.contents import contents_of

    (tmp_path / "repo").mkdir()
    for name, data in contents_of(file, CardInfo(REPO), [260]).files.items():
        (tmp_path / "repo" / name).write_bytes(data)
    assert all(check.ok for check in verify(tmp_path / "repo"))
    (tmp_path / "repo/freq_100.pt").write_bytes(b"of another count")
    assert "does not name it" in verify(tmp_path / "repo")[-1].detail


@pytest.mark.parametrize("field", ["tokenizer", "file"])
def test_local_paths_are_not_published(file: Path, field: str) -> None:
    import msgspec

    from vocabfreq.errors import RefusedError
    from vocabfreq.hub.card import CardInfo
    from vocabfreq.hub.contents import contents_of

    table = FrequencyTable.load(file)
    replace, path = msgspec.structs.replace, "/home/alice/secret"
    if field == "tokenizer":
        meta = replace(table.meta, tokenizer=replace(table.tokenizer, name=path))
    else:
        meta = replace(table.meta, sources=(replace(table.sources[0], files=(path,)),))
    FrequencyTable(table.counts, table.heldout, meta).save(file)
    with pytest.raises(RefusedError, match="local path '/home/alice/secret'"):
        contents_of(file, CardInfo(REPO), [260])


def test_the_command_in_a_card_is_one_command(tok: Path, tmp_path: Path) -> None:
    import shlex

    from vocabfreq import Source
    from vocabfreq.hub.card import build_command

    (tmp_path / "a.txt").write_text("the abc")
    name = "a```; touch PWNED #"
    table = count([Source(name, str(tmp_path / "a.txt"))], str(tok))
    words = shlex.split(build_command(table))
    assert f"{name.replace('`', ' ')}=a.txt" in words
    assert words[-2:] == ["-o", "vocab_freq.safetensors"]


def test_sums_of_a_strangers_repo_are_not_ours_to_judge(
    hub: HubServer, cli: HubCli, tmp_path: Path
) -> None:
    """A model repo may have a SHA256SUMS of its own, in its own form, over its weights alone."""
    eos = json.dumps({"eos_token": "<|im_end|>"}).encode()
    files = {"tokenizer.json": tiny_tokenizer().to_str().encode(), "tokenizer_config.json": eos}
    files |= {"config.json": b'{"vocab_size": 270}', "SHA256SUMS": b"SHA256 (weights) = 00"}
    hub.add("model", "org/strange", files)
    (tmp_path / "a.txt").write_text("the abc")
    out = tmp_path / "f.safetensors"
    words = ("build", "-q", "--tokenizer", "org/strange", "--workers", "0", "-o", out)
    cli.good(*words, "--source", f"a={tmp_path / 'a.txt'}")
    assert FrequencyTable.load(out).rows == 270


def test_h2_a_card_of_other_bytes_is_not_pulled(hub: HubServer, cli: HubCli, file: Path) -> None:
    spoiled(hub, cli, file, README__md=b"of somebody else")
    done = cli("pull", REPO)
    assert done.status == 1
    assert "README.md has sha256" in done.err

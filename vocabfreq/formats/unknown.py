"""A table of counts of which nobody knows where they come from: to select from, never to save."""

from typing import Any

import numpy as np

from vocabfreq.frequencies.metadata import EncoderRecord, Metadata, SourceRecord, TokenizerRecord
from vocabfreq.frequencies.table import FrequencyTable


def table_of(vector: Any) -> FrequencyTable:
    """A table of one source named `counts`, whose tokenizer is not known.

    Args:
        vector: counts or probabilities [V].
    """
    return FrequencyTable(vector[None], np.zeros_like(vector[None]), _meta(len(vector)))


def _meta(rows: int) -> Metadata:
    source = SourceRecord(
        name="counts",
        files=(),
        sha256="",
        weight=None,
        documents=0,
        heldout_documents=0,
        tokens=0,
        bytes=0,
    )
    return Metadata(
        format=1,
        vocabfreq="",
        tokenizer=TokenizerRecord(name="unknown", revision=None, sha256="", size=rows, rows=rows),
        special_ids=(),
        stop_ids=(),
        byte_ids=(),
        sources=(source,),
        options={},
        encoder=EncoderRecord(
            name="unknown", version="", cross_checked_documents=0, mismatched_documents=0
        ),
    )

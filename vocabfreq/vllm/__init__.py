r"""A plugin for stock vLLM that prunes the drafter's head after loading. Inert unless configured.

    vllm serve TARGET --speculative-config '{"method": "eagle3", "model": "DRAFTER", …}' \
        --additional-config '{"vocabfreq": {"vocab": "org/llama3-vocab-freq", "size": 32768}}'

vLLM calls `register` in every process before a model loads (entry point `vllm.general_plugins`).
`plugin` wraps the places in vLLM where engines are configured and drafters are loaded, `config`
reads and checks the options, `drafter` replaces the heads and `logits_processor` answers for them.
Selecting ids, the pruned head and its samplers come from the other rooms.
"""


def register() -> None:
    """Hooks into vLLM; a second call does nothing more."""
    from vocabfreq.vllm.plugin import hook

    hook()

r"""A plugin for stock vLLM: the drafter's head is pruned when it has loaded. Inert unless asked.

    vllm serve TARGET --speculative-config '{"method": "eagle3", "model": "DRAFTER", …}' \
        --additional-config '{"vocabfreq": {"vocab": "org/llama3-vocab-freq", "size": 32768}}'

vLLM calls `register` in every process before a model loads (entry point `vllm.general_plugins`).
"""


def register() -> None:
    """Hooks into vLLM; twice is once. Nothing changes for who does not ask for it."""
    from vocabfreq.vllm.plugin import hook

    hook()

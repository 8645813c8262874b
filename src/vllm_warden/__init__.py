"""vllm-warden: a supervisor for vLLM on GPU hosts."""

__version__ = "0.1.0"

"""A simulated host: GPUs as directories, and a program that behaves as ``vllm serve`` does."""

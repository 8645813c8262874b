"""What ``vllm-warden doctor`` looks at, one module per subject."""

"""GPU memory through NVML."""

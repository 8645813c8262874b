"""What vLLM needs of each GPU, worked out before anything starts: pure arithmetic."""

"""From a diagnosis to the one change that helps, or to the reason why none can."""

"""A trace projected to another GPU: laws, replay, uncertainty, what it is written as."""

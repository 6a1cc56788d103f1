"""What is read: pure folds from events to documents, and the writer that puts them on disk."""

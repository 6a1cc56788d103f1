"""Task folders: read, checked, hashed, snapshotted, made."""

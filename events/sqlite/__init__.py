"""The log in one SQLite file, with blobs of 64 KiB and more as files beside it."""

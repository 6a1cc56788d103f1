"""What happened: event kinds, the log and its stores, hashes and blobs. Imports nothing of ours."""

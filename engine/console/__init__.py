"""What a person sees: lines, summaries, progress and messages. Decides nothing."""

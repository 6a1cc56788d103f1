"""Traces: a trial as OpenTelemetry's OTLP has it in JSON."""

"""JSON on the wire: frames, parameter rules and encoders. The only place that knows JSON names."""

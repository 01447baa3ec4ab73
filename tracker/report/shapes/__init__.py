"""The shapes of answers: plain values for programs, and sentences, shared by every way to ask."""

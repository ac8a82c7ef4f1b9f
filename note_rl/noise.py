"""Noise processes under the manuals' import path; they live in `note_rl.policy.noise`."""

from note_rl.policy.noise import (
    AnnealedNoise,
    ClippedNoise,
    GaussianWhiteNoiseProcess,
    NoiseProcess,
    NoiseSum,
    OrnsteinUhlenbeckProcess,
    SeveralNoises,
)

__all__ = [
    "AnnealedNoise",
    "ClippedNoise",
    "GaussianWhiteNoiseProcess",
    "NoiseProcess",
    "NoiseSum",
    "OrnsteinUhlenbeckProcess",
    "SeveralNoises",
]

"""Draft heads: their checkpoints, the fusion on the verifier's side, the network on the drafter's."""

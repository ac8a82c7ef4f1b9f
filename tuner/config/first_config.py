"""Reads a config when it is imported: the first one has omegaconf import modules. The fork server imports this."""

from omegaconf import OmegaConf

OmegaConf.select(OmegaConf.create({}), "key")

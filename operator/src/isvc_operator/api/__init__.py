"""The custom resources as typed models: parsing, defaults, names, and the CRDs that are generated from them. Pure."""

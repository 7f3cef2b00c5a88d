"""HTTP client for predictors: connection pools, responses and errors."""

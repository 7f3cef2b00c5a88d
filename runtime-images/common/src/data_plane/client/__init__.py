"""HTTP client for predictors, on aiohttp: sessions, responses and errors."""

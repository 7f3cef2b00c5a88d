"""``isvc bench``: sends requests to a server, in a closed loop or at a rate, and says how long the responses took."""

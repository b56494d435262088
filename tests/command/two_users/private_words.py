"""What one user writes into commands and variables, and the other must not be able to read."""

SECRET = "hf_aSecretThatNobodyElseMayRead"

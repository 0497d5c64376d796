"""The localization rules, one small function per operation family."""

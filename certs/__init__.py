"""The CA and the serving certificate of the webhook: made, checked, written to their Secret and the caBundle."""

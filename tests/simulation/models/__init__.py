"""Models of the components around a controller. Each one is compared with the real one by `test_models_against_real`."""

"""Models of the components around a controller. `test_models_against_real` compares each one with the real one."""

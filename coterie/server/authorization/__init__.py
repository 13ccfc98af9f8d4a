"""The authorizer in the broker: checks that are laid into the routes, and the rules' requests."""

"""Models in half precision: small hard ones from threads of users, and a judge of what a converter makes of them."""

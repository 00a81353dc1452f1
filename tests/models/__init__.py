"""Every model file in some folders, such as installed packages, through every verb: outputs and first classes compared."""

"""Small models of scikit-learn, LightGBM and XGBoost, as their converters write them."""

"""Trains a classifier in the image of MLServer; prints it, with some flowers and what it says of them, as JSON."""

import base64
import io
import json

import joblib
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

flowers, species = load_iris(return_X_y=True)
model = LogisticRegression(max_iter=1000).fit(flowers, species)
file = io.BytesIO()
joblib.dump(model, file)
some = flowers[::30]
print(
    json.dumps(
        {
            "model.joblib": base64.b64encode(file.getvalue()).decode(),
            "flowers": some.tolist(),
            "species": model.predict(some).tolist(),
        }
    )
)

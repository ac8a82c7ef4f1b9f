"""The figures of the page, as Plotly's JSON: data and layout, no drawing."""

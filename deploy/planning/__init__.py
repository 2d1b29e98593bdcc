"""What a model and a load need: an estimate from the model's shape and the machines' data sheets."""

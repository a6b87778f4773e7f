"""The judgement: checks and the stages from their results to a conclusion."""

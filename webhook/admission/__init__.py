"""Admission: turns an AdmissionReview into a decision with patches and warnings, or into a refusal.

Start with `dispatch`, which chooses the answer by object. `arriving_pods`, `object_reviews`, `suspending` and
`absent_schedulers` make the answers. `reviews` decodes and encodes AdmissionReviews, and `patch_builder` and
`warnings` help to build the answers.
"""

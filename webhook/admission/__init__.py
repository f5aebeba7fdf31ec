"""What is admitted, and how: an AdmissionReview comes in, out goes a decision with patches, warnings or a refusal.

Start with `dispatch` (which object gets which answer); `arriving_pods`, `object_reviews`, `suspending` and
`absent_schedulers` make the answers, `reviews` reads and writes them as the API server does, with `patch_builder` and
`warnings`.
"""

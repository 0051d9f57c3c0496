"""Measures of models that learn without labels."""

from routebench.declared import GAIN, INDEX, LESS, MORE, NEITHER, POSITIVE, Measure, declare

declare(
    Measure("reconstruction_error", "Reconstruction error", "", LESS, 1, "sum of squared pixel errors of the "
            "reconstruction, mean over test images, by largest angle", POSITIVE),
    Measure("bound", "Bound", "nat", MORE, 0, "mean over test images: the term of the `pixels`, of the `parts`, of the "
            "`objects`, and the `total`; `total without constant` leaves out what point estimates of object poses add "
            "to every bound. A bound with point estimates cannot be compared with one with a full posterior"),
    Measure("presence_information", "Information in presences", "nat", MORE, 2, "information about the image in "
            "presences of `objects` or `parts`, a whole layer together: the mean divergence of an image's posterior "
            "from the mean over 500 test images, which limit it to 6.2"),
    Measure("mean_presence", "Mean presence", "", NEITHER, 2, "mean probability that `objects` or `parts` are on",
            INDEX),
    Measure("varying_choices", "Varying choices", "%", MORE, 0, "parts whose most likely object is not the same in 95 "
            "% of test images"),
    Measure("generative_parameters", "Generative parameters", "count", NEITHER, 0, "learned numbers of the generative "
            "model, encoders not counted"),
    Measure("template_share", "Share of a template", "%", NEITHER, 1, "of one template in all that is drawn"),
    Measure("effective_templates", "Templates in effect", "count", MORE, 1, "exponential of the entropy of the shares "
            "of templates"),
    Measure("dead_templates", "Dead templates", "count", LESS, 1, "templates that draw almost nothing"),
    Measure("duplicate_templates", "Duplicate templates", "count", LESS, 1, "templates that are affine copies of "
            "another: brought to one place, size and shape, their pixels correlate by at least 0.95"),
    Measure("objects", "Objects", "count", NEITHER, 0, "objects of the model"),
    Measure("idle_objects", "Idle objects", "count", LESS, 1, "whose presence differs between images by less than a "
            "tenth of its mean. A probe may still read the small differences"),
    Measure("presence_accuracy", "Probe of presences", "%", MORE, 1, "accuracy of a linear probe on presences of "
            "objects: on the `logits` of the encoder, and on presences `drawn` from them, which the model itself sees"),
    Measure("presence_spread", "Spread of presences", "", MORE, 2, "how far its logits differ between images, as a "
            "deviation", POSITIVE),
    Measure("collapsed", "Collapsed", "", LESS, 0, "1 if the model has collapsed, else 0", INDEX),
    Measure("template_reuse", "Reuse of templates", "", MORE, 2, "how similar the shares of templates are for a digit "
            "upright and turned, by largest angle: 1 if the same templates, turned, draw it", INDEX),
    Measure("free_form_bound", "Free-form bound", "nat", MORE, 1, "of the evidence, mean over the same samples for "
            "both"),
    Measure("free_form_error", "Free-form error", "", LESS, 1, "squared, summed over pixels in [0, 1]", POSITIVE),
    Measure("free_form_accuracy", "Free-form accuracy", "%", MORE, 1, "of a linear probe on t0, fitted to what the "
            "encoder says of training images"),
    Measure("free_form_gain", "Free-form gain", "%", MORE, 1, "percentage points that free-form inference adds to it",
            GAIN),
    Measure("refitted_accuracy", "Refitted probe", "%", MORE, 1, "of one fitted to a few training images by the same "
            "kind of inference"),
    Measure("refitted_both_accuracy", "Refitted probe, with poses", "%", MORE, 1, "likewise, on t0 and A0"),
    Measure("reencoded_accuracy", "Re-encoded", "%", MORE, 1, "of the first probe on what the object encoder says of "
            "the parts found"),
    Measure("seconds_per_image", "Seconds per image", "s", LESS, None, "of the encoder, and of free-form inference"),
)  # fmt: skip

variable "repositories" {
  description = "Names of the repositories, e.g. canopy/server."
  type        = set(string)
}

variable "kms_key_arn" {
  description = "Key of the images."
  type        = string
}

variable "kept_images" {
  description = "Tagged images that are kept per repository: as many roll-backs as one may want."
  type        = number
  default     = 20

  validation {
    condition     = var.kept_images >= 2
    error_message = "kept_images must be at least 2: the running image and the one before."
  }
}

variable "name" {
  description = "Name of the queue."
  type        = string
}

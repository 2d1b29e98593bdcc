# Private image repositories: scanned on push, a tag never changes its image, old images go.

resource "aws_ecr_repository" "this" {
  for_each             = var.repositories
  name                 = each.key
  image_tag_mutability = "IMMUTABLE"

  image_scanning_configuration {
    scan_on_push = true
  }

  encryption_configuration {
    encryption_type = "KMS"
    kms_key         = var.kms_key_arn
  }
}

resource "aws_ecr_lifecycle_policy" "this" {
  for_each   = aws_ecr_repository.this
  repository = each.value.name
  policy = jsonencode({
    rules = [
      {
        rulePriority = 1
        description  = "untagged images go after a week"
        selection    = { tagStatus = "untagged", countType = "sinceImagePushed", countUnit = "days", countNumber = 7 }
        action       = { type = "expire" }
      },
      {
        rulePriority = 2
        description  = "the newest images stay"
        selection    = { tagStatus = "any", countType = "imageCountMoreThan", countNumber = var.kept_images }
        action       = { type = "expire" }
      },
    ]
  })
}

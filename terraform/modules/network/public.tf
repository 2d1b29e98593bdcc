resource "aws_internet_gateway" "this" {
  count  = var.public_subnets ? 1 : 0
  vpc_id = aws_vpc.this.id
  tags   = { Name = var.name }
}

resource "aws_subnet" "public" {
  for_each          = var.public_subnets ? { for index, zone in var.zones : zone => index } : {}
  vpc_id            = aws_vpc.this.id
  availability_zone = each.key
  # Behind the largest possible private ones.
  cidr_block              = cidrsubnet(var.cidr, 8, 240 + each.value)
  map_public_ip_on_launch = false
  tags                    = merge({ Name = "${var.name}-public-${each.key}" }, var.public_subnet_tags)
}

resource "aws_route_table" "public" {
  count  = var.public_subnets ? 1 : 0
  vpc_id = aws_vpc.this.id
  tags   = { Name = "${var.name}-public" }
}

resource "aws_route" "internet" {
  count                  = var.public_subnets ? 1 : 0
  route_table_id         = aws_route_table.public[0].id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.this[0].id
}

resource "aws_route_table_association" "public" {
  for_each       = aws_subnet.public
  subnet_id      = each.value.id
  route_table_id = aws_route_table.public[0].id
}

"""Pages and charts that stand alone: one HTML or SVG file each, without a script, a font or a request."""

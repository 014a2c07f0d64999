#include "report/svg.h"

#include <fmt/format.h>

#include "report/html.h"
#include "report/text_width.h"

namespace nibble::report {
namespace {

std::string_view name_of(Anchor anchor) {
  switch (anchor) {
    case Anchor::kStart:
      return "start";
    case Anchor::kMiddle:
      return "middle";
    case Anchor::kEnd:
      break;
  }
  return "end";
}

// The end of a shape that may say something.
std::string close(std::string_view element, std::string_view hover) {
  return hover.empty() ? "/>\n"
                       : fmt::format("><title>{}</title></{}>\n", escape_html(hover), element);
}

}  // namespace

Svg::Svg(double width, double height, std::string_view title)
    : body_(fmt::format("<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
                        "role=\"img\" aria-label=\"{2}\">\n",
                        width, height, escape_html(title))) {}

void Svg::line(Place from, Place to, std::string_view style) {
  body_ +=
      fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n",
                  from.x, from.y, to.x, to.y, escape_html(style));
}

void Svg::rectangle(Place corner, double width, double height, std::string_view style,
                    std::string_view hover) {
  body_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" class=\"{}\"{}", corner.x,
      corner.y, width, height, escape_html(style), close("rect", hover));
}

void Svg::circle(Place center, double radius, std::string_view style, std::string_view hover) {
  body_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" class=\"{}\"{}", center.x,
                       center.y, radius, escape_html(style), close("circle", hover));
}

void Svg::path(std::span<const Place> places, std::string_view style) {
  body_ += "<polyline points=\"";
  for (const Place& place : places) {
    body_ += fmt::format("{:.1f},{:.1f} ", place.x, place.y);
  }
  body_ += fmt::format("\" class=\"{}\"/>\n", escape_html(style));
}

void Svg::text(Place place, std::string_view text, Anchor anchor, std::string_view style) {
  body_ +=
      fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n",
                  place.x, place.y, name_of(anchor), escape_html(style), escape_html(text));
}

double label_pixels(std::string_view text) {
  return 7.3 * static_cast<double>(text_width(text));
}

}  // namespace nibble::report

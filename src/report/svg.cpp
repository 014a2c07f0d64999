#include "report/svg.h"

#include <fmt/format.h>

#include "report/html.h"
#include "report/text_width.h"

namespace nibble::report {

const std::string_view kDrawingStyle = R"(
:root { color-scheme: light dark; --line: #8884; --main: #1f6feb; --second: #c2410c; }
@media (prefers-color-scheme: dark) { :root { --main: #58a6ff; --second: #fb923c; } }
svg { max-width: 100%; min-width: 36rem; height: auto; font: 12px system-ui, sans-serif; }
svg .label { font-family: ui-monospace, monospace; }
svg text { fill: currentColor; paint-order: stroke; stroke: Canvas; stroke-width: 3px; }
svg .leader { stroke: currentColor; opacity: .4; }
svg .tick { opacity: .75; }
svg .axis { stroke: currentColor; opacity: .6; }
svg .grid { stroke: var(--line); }
svg .point, svg .bar { fill: var(--main); }
svg .error { stroke: var(--main); stroke-width: 1.5; }
svg .front { fill: none; stroke: var(--second); stroke-width: 1.5; }
svg .mark { stroke: var(--second); }
svg .curve { fill: none; stroke-width: 1.5; }
svg .first { stroke: var(--main); fill: var(--main); }
svg .second { stroke: var(--second); fill: var(--second); }
svg .curve.first, svg .curve.second { fill: none; }
svg .curve.second { stroke-dasharray: 5 3; }
svg .strength0 { opacity: .3; }
svg .strength1 { opacity: .45; }
svg .strength2 { opacity: .6; }
svg .strength3 { opacity: .8; }
)";

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

std::string svg_file(std::string_view drawing) {
  const std::size_t style = drawing.find('\n');  // behind the first tag
  return fmt::format("{}\"http://www.w3.org/2000/svg\"{}\n<style>{}</style>{}", kSvgBegin,
                     drawing.substr(4, style - 4), kDrawingStyle, drawing.substr(style));
}

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

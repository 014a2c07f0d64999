#pragma once

#include <span>
#include <string>
#include <string_view>

namespace nibble::report {

/// A place in pixels, from the upper left corner.
struct Place {
  double x = 0;
  double y = 0;
};

enum class Anchor { kStart, kMiddle, kEnd };

/// How the classes of drawings look, dark and light.
extern const std::string_view kDrawingStyle;

/// A drawing for a page of report/html.h, as an <svg> element. Looks come from kDrawingStyle. Every
/// text is escaped; `hover` appears when the pointer rests on a shape.
class Svg {
 public:
  /// `title` is what a screen reader says.
  Svg(double width, double height, std::string_view title);

  void line(Place from, Place to, std::string_view style);
  void rectangle(Place corner, double width, double height, std::string_view style,
                 std::string_view hover = "");
  void circle(Place center, double radius, std::string_view style, std::string_view hover = "");
  void path(std::span<const Place> places, std::string_view style);
  void text(Place place, std::string_view text, Anchor anchor, std::string_view style = "");

  std::string finish() const { return body_ + "</svg>\n"; }

 private:
  std::string body_;
};

/// What every file of svg_file() begins with.
inline constexpr std::string_view kSvgBegin = "<svg xmlns=";

/// The drawing of Svg::finish() as a file of its own, with its style.
std::string svg_file(std::string_view drawing);

/// Pixels of a text in the style "label" (12 px, all characters of one width), at most.
double label_pixels(std::string_view text);

}  // namespace nibble::report

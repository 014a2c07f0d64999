#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/text_table.h"

namespace nibble::report {

/// Text made safe inside HTML and SVG, in elements and in quoted attributes. Control characters
/// become U+FFFD.
std::string escape_html(std::string_view text);

/// The table as an HTML <table>. On a narrow page a row of one with many columns is a block of its
/// own.
std::string to_html(const Table& table);

std::string paragraph(std::string_view text);

/// Begins a part of a page.
std::string heading(std::string_view text);

/// `content` (HTML) behind a line that opens it.
std::string foldable(std::string_view summary, std::string_view content);

/// What every page begins with.
inline constexpr std::string_view kPageBegin = "<!doctype html>";

/// A page of its own that fetches nothing, dark and light, readable on a phone.
std::string page(std::string_view title, const std::vector<std::string>& sections);

}  // namespace nibble::report

#pragma once

#include <string>
#include <vector>

#include "core/json_type.h"
#include "eval/damage.h"
#include "report/scatter_plot.h"
#include "report/text_table.h"

namespace nibble::cli {

/// "1.23 ± 0.04" with as many digits behind the point; "1.23" where the error is not defined.
std::string with_error(double value, double standard_error, int digits);

/// The same with a sign before positive values too.
std::string signed_with_error(double value, double standard_error, int digits);

/// The damage table: a line for each row, columns that say something. What follows "±" is one
/// standard error, over windows; that of the agreement is binomial; of speeds, half the distance
/// of the quartiles.
report::Table damage_table(const std::vector<eval::DamageRow>& rows);

/// As much of it as fits `width` columns of a terminal.
report::FittedTable damage_table(const std::vector<eval::DamageRow>& rows, std::size_t width);

/// Of each recipe the `layers` layers with the largest relative error, largest first.
report::Table worst_layers_table(const std::vector<eval::DamageRow>& rows, std::size_t layers);

/// Bits per weight against the increase of perplexity.
report::ScatterPlot increase_plot(const std::vector<eval::DamageRow>& rows);

/// A page: the table, bits per weight against the loss with the Pareto front, and the errors of the
/// layers. `protocol` says what was measured on what.
std::string damage_page(const std::string& title, const std::string& protocol,
                        const std::vector<eval::DamageRow>& rows, std::size_t layers);

}  // namespace nibble::cli

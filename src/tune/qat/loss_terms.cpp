#include "tune/qat/loss_terms.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "ops/gradient/attention_scores.h"

namespace nibble::tune {
namespace {

using models::Problem;
using ops::cpu::Matrix;

void require_head(Problem problem) {
  core::require(problem == Problem::kSingleLabel || problem == Problem::kRegression,
                core::ErrorKind::kUsage,
                "students learn from labels and logits of heads that give each text one label or "
                "one number; this head gives others");
}

// softmax in double: the differences of two of them are small.
std::vector<double> log_softmax(const float* x, std::int64_t n) {
  const double largest = *std::max_element(x, x + n);
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    sum += std::exp(x[i] - largest);
  }
  std::vector<double> y(x, x + n);
  for (double& value : y) {
    value -= largest + std::log(sum);
  }
  return y;
}

// KL(softmax(teacher) || softmax(student)) of n values; slope += weight times its gradient.
double add_divergence(const float* student, const float* teacher, std::int64_t n, double weight,
                      float* slope) {
  const std::vector<double> of_student = log_softmax(student, n);
  const std::vector<double> of_teacher = log_softmax(teacher, n);
  double sum = 0;
  for (std::size_t i = 0; i < of_student.size(); ++i) {
    const double p = std::exp(of_teacher[i]);
    sum += p * (of_teacher[i] - of_student[i]);
    slope[i] += static_cast<float>(weight * (std::exp(of_student[i]) - p));
  }
  return sum;
}

// One query of one head of one text: its scores [begin, end) of all.
struct Query {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

std::vector<Query> queries_of(const LayerScores& scores) {
  std::vector<Query> queries;
  std::int64_t first = 0;
  for (const ops::gradient::TextRows& text : scores.texts) {
    const std::int64_t keys = text.read.rows;
    for (std::int64_t head = 0; head < scores.spec.heads; ++head) {
      for (std::int64_t row = 0; row < text.own.rows; ++row, first += keys) {
        const auto [begin, end] = ops::gradient::visible_keys(scores.spec.mask, row, keys);
        queries.push_back({first + begin, first + end});
      }
    }
  }
  return queries;
}

}  // namespace

double add_label_loss(Problem problem, const Matrix& logits, std::span<const Label> labels,
                      double weight, Matrix& gradient) {
  require_head(problem);
  const double share = 1.0 / static_cast<double>(logits.rows());
  double sum = 0;
  for (std::int64_t i = 0; i < logits.rows(); ++i) {
    const Label& label = labels[static_cast<std::size_t>(i)];
    const float* const row = logits.row(i);
    float* const slope = gradient.row(i);
    if (problem == Problem::kRegression) {
      const double difference = static_cast<double>(row[0]) - static_cast<double>(label.value);
      sum += share * difference * difference;
      slope[0] += static_cast<float>(weight * share * 2.0 * difference);
      continue;
    }
    const std::vector<double> logarithms = log_softmax(row, logits.columns());
    sum -= share * logarithms[static_cast<std::size_t>(label.output)];
    for (std::int64_t j = 0; j < logits.columns(); ++j) {
      const double p = std::exp(logarithms[static_cast<std::size_t>(j)]);
      slope[j] += static_cast<float>(weight * share * (p - (j == label.output ? 1.0 : 0.0)));
    }
  }
  return sum;
}

double add_logit_loss(Problem problem, const Matrix& student, const Matrix& teacher, double weight,
                      Matrix& gradient) {
  require_head(problem);
  if (problem == Problem::kRegression) {
    return add_squared_difference(student, teacher, weight, gradient);
  }
  const double share = 1.0 / static_cast<double>(student.rows());
  double sum = 0;
  for (std::int64_t i = 0; i < student.rows(); ++i) {
    sum += share * add_divergence(student.row(i), teacher.row(i), student.columns(), weight * share,
                                  gradient.row(i));
  }
  return sum;
}

double add_squared_difference(const Matrix& student, const Matrix& teacher, double weight,
                              Matrix& gradient) {
  const std::int64_t count = student.rows() * student.columns();
  const double share = 1.0 / static_cast<double>(count);
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float difference = student.data()[i] - teacher.data()[i];
    sum += static_cast<double>(difference) * static_cast<double>(difference);
    gradient.data()[i] += static_cast<float>(2.0 * weight * share) * difference;
  }
  return sum * share;
}

double add_attention_loss(const LayerScores& scores, double weight, Matrix& gradient) {
  const std::vector<Query> queries = queries_of(scores);
  const double share = 1.0 / static_cast<double>(queries.size());
  double sum = 0;
  for (const Query& query : queries) {
    sum += add_divergence(scores.student.data() + query.begin, scores.teacher.data() + query.begin,
                          query.end - query.begin, weight * share, gradient.data() + query.begin);
  }
  return sum * share;
}

double add_score_loss(const LayerScores& scores, double weight, Matrix& gradient) {
  const std::vector<Query> queries = queries_of(scores);
  std::int64_t count = 0;
  for (const Query& query : queries) {
    count += query.end - query.begin;
  }
  const double share = 1.0 / static_cast<double>(count);
  double sum = 0;
  for (const Query& query : queries) {
    for (std::int64_t i = query.begin; i < query.end; ++i) {
      const float difference = scores.student.data()[i] - scores.teacher.data()[i];
      sum += static_cast<double>(difference) * static_cast<double>(difference);
      gradient.data()[i] += static_cast<float>(2.0 * weight * share) * difference;
    }
  }
  return sum * share;
}

}  // namespace nibble::tune

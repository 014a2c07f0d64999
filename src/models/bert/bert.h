#pragma once

#include "models/family.h"

/// Encoders with learned positions and norms behind their layers: BERT (arXiv 1810.04805), RoBERTa
/// (arXiv 1907.11692) and XLM-RoBERTa (arXiv 1911.02116), whose positions begin behind that of the
/// padding token, and DistilBERT (arXiv 1910.01108), which knows no token types.
namespace nibble::models::bert {

Family bert();
Family roberta();
Family xlm_roberta();
Family distilbert();

}  // namespace nibble::models::bert
